package indextables.spark;

import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException;
import org.apache.spark.sql.connector.catalog.*;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.types.StructType;

/** A table of another format that a query creates or replaces: registered first, and dropped if the query fails. */
final class CatalogOthers implements StagedTable, SupportsWrite {
    private final TableCatalog catalog;
    private final Identifier identifier;
    private final Table table;

    private CatalogOthers(TableCatalog catalog, Identifier identifier, Table table) {
        this.catalog = catalog;
        this.identifier = identifier;
        this.table = table;
    }

    static StagedTable created(TableCatalog catalog, Identifier identifier, NewTable info)
        throws TableAlreadyExistsException, NoSuchNamespaceException {
        Table made = info.createdIn(catalog, identifier);
        try {
            return new CatalogOthers(catalog, identifier, made == null ? catalog.loadTable(identifier) : made);
        } catch (NoSuchTableException error) {
            throw new IllegalStateException(error);
        }
    }

    static StagedTable replaced(TableCatalog catalog, Identifier identifier, NewTable info)
        throws NoSuchNamespaceException, NoSuchTableException {
        if (!catalog.dropTable(identifier)) throw new NoSuchTableException(identifier);
        try {
            return created(catalog, identifier, info);
        } catch (TableAlreadyExistsException error) {
            throw new IllegalStateException(error);
        }
    }

    public void commitStagedChanges() {}

    public void abortStagedChanges() {
        catalog.dropTable(identifier);
    }

    public String name() {
        return table.name();
    }

    public StructType schema() {
        return table.schema();
    }

    public Column[] columns() {
        return table.columns();
    }

    public Transform[] partitioning() {
        return table.partitioning();
    }

    public Map properties() {
        return table.properties();
    }

    public Set capabilities() {
        return table.capabilities();
    }

    public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
        return ((SupportsWrite) table).newWriteBuilder(info);
    }
}
