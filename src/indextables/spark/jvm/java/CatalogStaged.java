package indextables.spark;

import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.types.StructType;

/**
 * A table that a query creates or replaces. A new table enters the catalog after its rows are committed. An existing
 * table is overwritten in one commit. If the query fails, nothing changes.
 */
final class CatalogStaged extends CatalogLoad implements StagedTable {
    private final CatalogTables tables;
    private final CatalogEntries entries;
    private final Identifier identifier;
    private final Map planned;
    private boolean isWritten;

    CatalogStaged(
        CatalogTables tables, CatalogEntries entries, Identifier identifier, Map planned, Map told, Function ask) {
        super((String) planned.get("name"), told, new CatalogLoad.Shown(new HashMap(), new StructType()), ask);
        this.tables = tables;
        this.entries = entries;
        this.identifier = identifier;
        this.planned = planned;
    }

    private boolean isNew() {
        return told.get("create") != null;
    }

    public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
        isWritten = true;
        return new CatalogWrite(this, info, !isNew());
    }

    public void commitStagedChanges() {
        if (!isWritten) {
            throw CatalogTables.refused("ConfigError", "cannot replace `" + name() + "` without a query"
                + "\nhint: `INSERT OVERWRITE` with a query without rows empties a table");
        }
        try {
            if (isNew()) entries.register(identifier, planned, told);
            tables.alterTable(identifier, changes((Map) told.get("after")));
        } catch (NoSuchTableException error) {
            throw new IllegalStateException(error);
        } catch (NoSuchNamespaceException error) {
            throw new IllegalStateException(error);
        } catch (TableAlreadyExistsException error) {
            throw new IllegalStateException(error);
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException(error);
        }
    }

    /** Uses reflection, because the compiler cannot call static methods of an interface. */
    private static TableChange[] changes(Map properties) throws ReflectiveOperationException {
        List changes = new ArrayList();
        Method set = TableChange.class.getMethod("setProperty", new Class[] {String.class, String.class});
        Object[] keys = properties.keySet().toArray();
        for (int i = 0; i < keys.length; i++) {
            changes.add(set.invoke(null, new Object[] {keys[i], properties.get(keys[i])}));
        }
        return (TableChange[]) changes.toArray(new TableChange[0]);
    }

    /** A failed write has deleted its files, and nothing else has changed. */
    public void abortStagedChanges() {}
}
