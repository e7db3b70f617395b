package indextables.spark;

import java.util.Arrays;
import java.util.Map;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException;
import org.apache.spark.sql.connector.catalog.*;

/** Methods of a catalog by which Spark creates and loads tables. They differ between versions of Spark. */
abstract class CatalogMethods extends DelegatingCatalogExtension implements StagingTableCatalog {
    abstract boolean has(Identifier name);

    abstract Table load(Identifier name, Map given) throws NoSuchTableException;

    abstract StagedTable staged(Identifier name, NewTable info)
        throws TableAlreadyExistsException, NoSuchNamespaceException;

    abstract StagedTable restaged(Identifier name, NewTable info)
        throws NoSuchNamespaceException, NoSuchTableException;

    abstract StagedTable stagedAnyway(Identifier name, NewTable info) throws NoSuchNamespaceException;

    /** Refuse options of a read that change the columns: this Spark loads a table without the options of its reads. */
    static void check(Map given) {
        Object[] keys = given.keySet().toArray();
        for (int i = 0; i < keys.length; i++) {
            String key = ((String) keys[i]).toLowerCase(java.util.Locale.ROOT);
            if (Arrays.asList(new String[] {"columns", "score", "snippet"}).contains(key)) {
                throw CatalogTables.refused("ConfigError", "cannot read a table by its name with the option `" + key
                    + "` because this takes Spark 4.3 or newer"
                    + "\nhint: load its location, or use `score()` and `snippet()` in SQL");
            }
        }
    }

    /** A time in microseconds as text. */
    static String moment(long micros) {
        long seconds = Math.floorDiv(micros, 1000000L);
        return java.time.Instant.ofEpochSecond(seconds, Math.floorMod(micros, 1000000L) * 1000L).toString();
    }

    public StagedTable stageCreate(Identifier name, TableInfo info)
        throws TableAlreadyExistsException, NoSuchNamespaceException {
        return staged(name, new NewTable(info));
    }

    public StagedTable stageReplace(Identifier name, TableInfo info)
        throws NoSuchNamespaceException, NoSuchTableException {
        return restaged(name, new NewTable(info));
    }

    public StagedTable stageCreateOrReplace(Identifier name, TableInfo info)
        throws NoSuchNamespaceException {
        return stagedAnyway(name, new NewTable(info));
    }

    public TableSummary[] listTableSummaries(String[] namespace) throws NoSuchNamespaceException, NoSuchTableException {
        return ((TableCatalog) delegate).listTableSummaries(namespace);
    }
}
